"""KServe v2, the Open Inference Protocol, with Triton's binary tensors: wire <-> request.

One step a file: `bodies` (bytes), `calls` (JSON and its checks), `tensors` (data -> array), `answers`
(array -> bytes), `metadata`, `routes`. Judge: `tritonclient[http]`, unchanged.
"""
