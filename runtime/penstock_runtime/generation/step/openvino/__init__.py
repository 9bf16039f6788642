"""The step through OpenVINO's CPU plugin: an optional extra, which nothing imports until a pool asks for it."""
