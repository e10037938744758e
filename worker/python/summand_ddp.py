"""The module summand.ddp under the name that it had before there was a package."""

import sys

import summand.ddp

sys.modules[__name__] = summand.ddp
