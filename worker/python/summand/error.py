"""The exception of this package."""


class SummandError(RuntimeError):
    """What Summand could not do. The text says why; code is an error number, 0 where there is none."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code

    def __reduce__(self):
        return type(self), (self.code, *self.args)
