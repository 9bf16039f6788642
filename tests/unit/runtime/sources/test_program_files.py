from penstock_api.types.sources import HuggingFaceSource
from penstock_runtime.sources.hugging_face import is_selected, patterns_of


def selected(path: str, *names: str) -> set[str]:
    source = HuggingFaceSource.model_validate({"repository": "owner/tiny", "path": path})
    return {name for name in names if is_selected(name, patterns_of(source))}


def test_a_program_of_a_repository_comes_with_the_weights_next_to_it() -> None:
    names = ("onnx/m.onnx", "onnx/m.onnx_data", "onnx/n.onnx", "ir/m.xml", "ir/m.bin", "m.pt2")
    assert selected("onnx/m.onnx", *names) == {"onnx/m.onnx", "onnx/m.onnx_data"}
    assert selected("ir/m.xml", *names) == {"ir/m.xml", "ir/m.bin"}
    assert selected("m.pt2", *names) == {"m.pt2"}


def test_a_directory_comes_without_formats_that_it_does_not_need() -> None:
    names = ("onnx/m.onnx", "onnx/config.json", "model.safetensors", "pytorch_model.bin")
    assert selected(".", *names) == {"onnx/config.json", "model.safetensors"}
    assert selected("onnx", *names) == {"onnx/config.json"}
