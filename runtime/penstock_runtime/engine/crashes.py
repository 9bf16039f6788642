"""Native crashes of the pod's processes: their Python stacks go to stderr before the signal ends the process.

The kubelet copies the end of a failed container's log into its termination message where the pod wrote none
(`terminationMessagePolicy: FallbackToLogsOnError`). Of a child that crashes, the parent writes the signal's name there.
"""

import faulthandler


def report_crashes() -> None:
    """Write every thread's stack to stderr on SIGSEGV, SIGFPE, SIGABRT, SIGBUS and SIGILL."""
    faulthandler.enable(all_threads=True)
