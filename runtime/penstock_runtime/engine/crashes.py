"""`report_crashes`: writes the Python stacks of a native crash to stderr before the signal ends the process.

The kubelet copies the end of a failed container's log into its termination message where the pod wrote none
(`terminationMessagePolicy: FallbackToLogsOnError`). When a child crashes, its parent logs the name of the signal.
"""

import faulthandler


def report_crashes() -> None:
    """Write every thread's stack to stderr on SIGSEGV, SIGFPE, SIGABRT, SIGBUS and SIGILL."""
    faulthandler.enable(all_threads=True)
