"""Native crashes of the pod's processes: their Python stacks go to stderr before the signal ends the process.

The kubelet copies the end of a failed container's log into its termination message where the pod wrote none
(`terminationMessagePolicy: FallbackToLogsOnError`). Of a child that crashes, the parent writes the signal's name there.
"""

import faulthandler


def report_crashes() -> None:
    """Have SIGSEGV, SIGFPE, SIGABRT, SIGBUS and SIGILL told with every thread's stack."""
    faulthandler.enable(all_threads=True)
