"""What a Hugging Face directory says, and how a bad one is rejected: in one line that names file and remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from penstock_api.types.model import ModelSpec, Task
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.encoders.directory import Pooling, read_directory
from penstock_runtime.models.encoders.load import load_encoder
from penstock_runtime.models.encoders.tokenizer import TextTokenizer
from penstock_runtime.models.load import load

Directories = Callable[..., Path]


@pytest.fixture
def folder(directories: Directories, tmp_path: Path) -> Path:
    """A directory of the test's own."""
    return Path(shutil.copytree(directories("bert"), tmp_path / "model"))


def put(folder: Path, name: str, value: object) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def modules(*names: str) -> list[dict[str, str]]:
    return [{"path": "1_Pooling", "type": f"sentence_transformers.models.{name}"} for name in names]


def ask_for_a_layer(folder: Path) -> None:
    put(folder, "modules.json", modules("Transformer", "Dense"))


def pool_by_the_last(folder: Path) -> None:
    put(folder, "modules.json", modules("Pooling"))
    put(folder, "1_Pooling/config.json", {"pooling_mode_lasttoken": True})


def quantize_by_modelopt(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    put(folder, "config.json", config | {"quantization_config": {"quant_method": "modelopt"}})


def store_in_8_bits(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith("query.weight"))
    tensors[name] = tensors[name].to(torch.float8_e4m3fn)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_without_sentence_transformers_files_the_mean_is_taken_and_normed(folder: Path) -> None:
    directory = read_directory(folder)
    assert (directory.pooling, directory.normalize, directory.max_tokens) == (
        Pooling.MEAN,
        True,
        64,
    )


@pytest.mark.parametrize(
    ("mode", "pooling"),
    [("mean_tokens", Pooling.MEAN), ("cls_token", Pooling.FIRST), ("max_tokens", Pooling.MAX)],
)
def test_the_pooling_of_sentence_transformers_is_followed(
    folder: Path, mode: str, pooling: Pooling
) -> None:
    put(folder, "modules.json", modules("Transformer", "Pooling"))
    put(folder, "1_Pooling/config.json", {f"pooling_mode_{mode}": True})
    directory = read_directory(folder)
    assert (directory.pooling, directory.normalize) == (pooling, False)


def test_the_least_of_the_length_bounds_holds(folder: Path) -> None:
    put(folder, "sentence_bert_config.json", {"max_seq_length": 48})
    put(folder, "tokenizer_config.json", {"model_max_length": 10**30})
    assert read_directory(folder).max_tokens == 48


def test_a_roberta_spends_two_positions_on_its_padding(directories: Directories) -> None:
    folder = directories("roberta")
    assert read_directory(folder).max_tokens == 64


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (shutil.rmtree, "there is no directory '"),
        (lambda f: (f / "tokenizer.json").unlink(), "has no tokenizer.json: save it"),
        (lambda f: (f / "config.json").write_text("{"), "config.json cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), "does not load as Embedding"),
        (ask_for_a_layer, "requires 'Dense'"),
        (store_in_8_bits, "has type F8_E4M3, whose scales are not read: use a checkpoint"),
        (quantize_by_modelopt, "quant_method 'modelopt', which is not supported here: use a"),
        (
            pool_by_the_last,
            "pools by pooling_mode_lasttoken: use one of",
        ),
    ],
)
def test_a_directory_that_cannot_be_served_says_why(
    folder: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(folder)
    with pytest.raises(ModelLoadFailed) as raised:
        load_encoder(folder, Task.EMBEDDING)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_weights_for_another_task_are_rejected_by_name(directories: Directories) -> None:
    with pytest.raises(ModelLoadFailed, match=r"has no weights for classifier\.bias"):
        load_encoder(directories("bert"), Task.CLASSIFICATION)


def test_a_file_that_is_no_tokenizer_is_rejected(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelLoadFailed, match=r"tokenizer\.json' is not a tokenizer"):
        TextTokenizer(folder, 8)


def test_a_pools_spec_finds_its_directory_on_the_claim(folder: Path) -> None:
    claim = {"claimName": "models", "path": "model"}
    spec = ModelSpec.model_validate(
        {
            "task": "Embedding",
            "source": {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim},
        }
    )
    info = load(spec, "served", folder.parent).info
    assert (info.name, info.task) == ("served", Task.EMBEDDING)


def test_texts_are_cut_only_where_asked(folder: Path) -> None:
    tokenizer = TextTokenizer(folder, 4)
    assert [ids.tolist() for ids in tokenizer.encode(["w0 w1", "nonsense"])] == [
        [2, 5, 6, 3],
        [2, 1, 3],
    ]
    (whole,), (cut,) = tokenizer.encode(["w0 w1 w2"]), tokenizer.encode(["w0 w1 w2"], truncate=True)
    assert (whole.tolist(), cut.tolist()) == ([2, 5, 6, 7, 3], [2, 5, 6, 3])
