"""`python -m penstock_gateway`: heed SIGTERM, then import and run the controller."""

from penstock_api import stopping

if __name__ == "__main__":
    stopping.remember()
    from penstock_gateway.main import main

    main()
