"""Draws size against algorithm bandwidth as SVG, with the limit of the links and the bound of a ring.

The picture follows the reader's light or dark theme, and systems differ by marker as well as by colour.
"""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 800, 340
LEFT, RIGHT, TOP, BOTTOM = 60, 190, 62, 52
ROW = 22
NAMES = {"summand": "Summand", "summand-told": "Summand, told its rate", "summand-tls": "Summand over TLS", "summand-bf16": "Summand, as bf16", "summand-fp16": "Summand, as fp16",
         "summand-job": "Summand, a job by ssh", "gloo": "Gloo, its best",
         "openmpi": "Open MPI, its best", "plain": "plain server", "direct": "direct exchange"}
STYLE = """<style>
  text { fill: #24292f } .grid { stroke: #d8dee4 } .axis, .bound { stroke: #57606a }
  .summand, .summand-told, .summand-tls, .summand-bf16, .summand-fp16, .summand-job { stroke: #0b6e4f; fill: #0b6e4f } .summand-tls.curve { stroke-dasharray: 6 4 } .summand-told.curve { stroke-dasharray: 10 2 } .summand-bf16.curve, .summand-fp16.curve { stroke-dasharray: 2 4 }
  .summand-job.curve { stroke-dasharray: 2 3 } .gloo { stroke: #bc4c33; fill: #bc4c33 }
  .openmpi { stroke: #3d5a98; fill: #3d5a98 } .plain, .direct { stroke: #8250a0; fill: #8250a0 } .direct.curve { stroke-dasharray: 6 4 } .curve { fill: none; stroke-width: 2 }
  .bound { stroke-dasharray: 6 4 } .background { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .grid { stroke: #30363d } .axis, .bound { stroke: #9ea7b1 }
    .summand, .summand-told, .summand-tls, .summand-bf16, .summand-fp16, .summand-job { stroke: #4ac79a; fill: #4ac79a } .gloo { stroke: #f28b74; fill: #f28b74 }
    .openmpi { stroke: #8fb0ff; fill: #8fb0ff } .plain, .direct { stroke: #cfa8e6; fill: #cfa8e6 } .background { fill: #0d1117 } .curve { fill: none }
  }
</style>"""


def size_text(size):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


class Axes:
    def __init__(self, sizes, top):
        self.low, self.high = math.log2(min(sizes)), math.log2(max(sizes))
        self.top = top

    def x(self, size):
        span = (self.high - self.low) or 1
        return LEFT + (math.log2(size) - self.low) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM)


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def label(x, y, text, style=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def grid(axes, sizes):
    step = 10 ** math.floor(math.log10(axes.top))
    step = next(part for part in (step / 5, step / 2, step, 2 * step) if axes.top / part <= 8)
    for i in range(int(axes.top / step) + 1):
        y = axes.y(i * step)
        yield line(LEFT, y, WIDTH - RIGHT, y, "grid")
        yield label(LEFT - 8, y + 4, f"{i * step:.4g}", 'text-anchor="end"')
    for size in sizes:
        yield line(axes.x(size), HEIGHT - BOTTOM, axes.x(size), HEIGHT - BOTTOM + 5, "axis")
        yield label(axes.x(size), HEIGHT - BOTTOM + 20, size_text(size), 'text-anchor="middle"')
    yield label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "bytes that each worker reduces", 'text-anchor="middle"')
    yield label(12, TOP - 14, "algbw = bytes / time, GB/s")


def bound(axes, value, text):
    yield line(LEFT, axes.y(value), WIDTH - RIGHT, axes.y(value), "bound")
    yield label(WIDTH - RIGHT + 10, axes.y(value) + 4, text)


def marker(name, x, y):
    if name.startswith("summand"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{name}"/>'
    if name == "gloo":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" class="{name}"/>'
    if name == "plain":
        return f'<path d="M{x:.1f} {y - 5:.1f} l5 5 l-5 5 l-5 -5 z" class="{name}"/>'
    return f'<path d="M{x:.1f} {y - 4.5:.1f} l4.5 8 h-9 z" class="{name}"/>'


def curve(axes, name, results, row):
    points = [(axes.x(size), axes.y(size / result["us"] / 1e3)) for size, result in sorted(results.items())]
    yield '<polyline class="{} curve" points="{}"/>'.format(name, " ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    for x, y in points:
        yield marker(name, x, y)
    x, y = WIDTH - RIGHT + 10, HEIGHT - BOTTOM - ROW * (row + 1)
    yield line(x, y, x + 24, y, f"{name} curve")
    yield marker(name, x + 12, y)
    yield label(x + 32, y + 4, NAMES.get(name, name))


def draw(title, systems, bounds):
    """SVG text; systems: by name, results by size; bounds: (GB/s, text) each."""
    sizes = sorted({size for results in systems.values() for size in results})
    highest = [size / result["us"] / 1e3 for results in systems.values() for size, result in results.items()]
    axes = Axes(sizes, 1.08 * max(highest + [value for value, _ in bounds]))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
             f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">', STYLE,
             f'<rect width="{WIDTH}" height="{HEIGHT}" class="background"/>',
             label(12, 24, title, 'font-size="15"')]
    parts += grid(axes, sizes)
    for value, text in bounds:
        parts += bound(axes, value, text)
    for row, (name, results) in enumerate(reversed(systems.items())):
        parts += curve(axes, name, results, row)
    return "\n".join(parts + ["</svg>", ""])
