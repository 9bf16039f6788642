"""For Triton's own interpreter, which is older than the standard library it is given: locks that can count.

`multiprocessing` of Python 3.11.7 and later asks a lock how often it is held, which the C lock of 3.11.6 cannot tell.
"""

import _thread
import threading

if not hasattr(_thread.RLock, "_recursion_count"):
    threading._CRLock = None  # the lock written in Python stands in
