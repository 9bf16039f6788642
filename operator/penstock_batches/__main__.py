"""`python -m penstock_batches`: heed SIGTERM, then import and run the batch service."""

from penstock_api import stopping

if __name__ == "__main__":
    stopping.remember()
    from penstock_batches.main import main

    main()
