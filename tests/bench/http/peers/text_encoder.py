"""The encoder of every peer: the unmodified model of a directory, with rows padded to the longest of their batch."""

import os

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class PeerEncoder:
    """The model in the directory `BENCH_MODEL`; texts are tokenized here, as peers do in their workers."""

    def __init__(self):
        torch.set_num_threads(1)
        folder = os.environ["BENCH_MODEL"]
        self.model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")

    def embed_ids(self, rows):
        longest = max(len(row) for row in rows)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        with torch.inference_mode():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            real = mask[:, :, None].float()
            pooled = (hidden * real).sum(1) / real.sum(1)
            return torch.nn.functional.normalize(pooled, dim=1).tolist()

    def embed_texts(self, texts):
        return self.embed_ids([encoding.ids for encoding in self.tokenizer.encode_batch(texts)])


def input_of(body):
    """Return the row of ids or the text of a body."""
    return body["input"] if "input" in body else body["inputs"][0]["data"]


def answer_for(body, vector):
    """Return the answer in the protocol of the body."""
    if "input" in body:
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector}]}
    return {"outputs": [{"name": "embedding", "datatype": "FP32", "shape": [1, len(vector)], "data": vector}]}
