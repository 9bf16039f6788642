"""`python -m penstock_runtime`: open the cluster port, then import and run the pod."""

import os

from penstock_runtime.http import first_socket

if __name__ == "__main__":
    first_socket.open_first(os.environ)
    from penstock_runtime.main import main

    main()
