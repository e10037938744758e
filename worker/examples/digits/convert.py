#!/usr/bin/python3
"""Turns the digits.csv.gz that Debian's python3-sklearn ships into digits.txt.

    worker/examples/digits/convert.py [CSV_GZ] > worker/examples/digits/digits.txt

One line per image: 64 pixels, each one base-17 digit (0..9, a..g), a space, the label.
"""
import csv
import gzip
import sys

SOURCE = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"
BASE17 = "0123456789abcdefg"

print("# Handwritten digits, 8x8: 64 pixels in base 17 (0..9, a..g), then the label. See DATA.md.")
with gzip.open(sys.argv[1] if len(sys.argv) > 1 else SOURCE, "rt", newline="") as source:
    for row in csv.reader(source):
        *pixels, label = (int(float(cell)) for cell in row)
        print("".join(BASE17[pixel] for pixel in pixels), label)
