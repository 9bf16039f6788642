"""`python -m penstock_runtime`: open the cluster port and heed SIGTERM, then import and run the pod."""

import os

from penstock_api import stopping
from penstock_runtime.http import first_socket

if __name__ == "__main__":
    stopping.remember()
    first_socket.open_first(os.environ)
    from penstock_runtime.main import main

    main()
