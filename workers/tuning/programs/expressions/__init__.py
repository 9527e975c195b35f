"""The families as TVM's tensor expressions. Only what makes a program's TIR imports this."""

try:
    import tvm  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "tvm":
        raise
    raise ModuleNotFoundError(
        "tuning needs TVM, which is not installed; pip install 'plait[tvm]'", name="tvm"
    ) from error
