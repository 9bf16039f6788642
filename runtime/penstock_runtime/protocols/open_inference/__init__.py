"""KServe v2, the Open Inference Protocol, with Triton's binary tensors: wire <-> request.

One step a file: `bodies` (bytes), `infer_request` (JSON and its checks), `tensors` (data -> array),
`infer_response` (array -> bytes), `metadata`, `routes`. Judge: `tritonclient[http]`, unchanged.
"""
