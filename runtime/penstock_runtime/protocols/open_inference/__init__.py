"""KServe v2, the Open Inference Protocol, with Triton's binary tensors: wire <-> request.

Each step has its module: `bodies` (bytes), `infer_request` (JSON and its checks), `tensors` (data -> array),
`infer_response` (array -> bytes), `metadata`, `routes`. The reference client is `tritonclient[http]`, unchanged.
"""
