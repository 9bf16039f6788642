"""One C file for float32 on CPUs: compiled when the image is built, or at first use where there is a compiler."""
