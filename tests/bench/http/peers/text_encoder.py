"""What every peer computes: the untouched model of a directory, rows padded to the longest of their batch."""

import os

import torch
import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class TextEncoder:
    """`BENCH_MODEL` is the directory; texts are tokenised here, as peers do in their workers."""

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
        return self.embed_ids([one.ids for one in self.tokenizer.encode_batch(texts)])


def asked(body):
    """Return a row of ids or a text, whichever a body brings."""
    return body["input"] if "input" in body else body["inputs"][0]["data"]


def answered(body, vector):
    """Return the answer of the protocol that the body speaks."""
    if "input" in body:
        return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": vector}]}
    return {"outputs": [{"name": "embedding", "datatype": "FP32", "shape": [1, len(vector)], "data": vector}]}
