"""Draws size against algorithm bandwidth as SVG, with the limit of the links and the bound of a ring."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 80, 210, 60, 60
COLOURS = {"summand": "#0b6e4f", "gloo": "#c8553d", "openmpi": "#3d5a98"}


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


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def label(x, y, text, style=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def grid(axes, sizes):
    step = 10 ** math.floor(math.log10(axes.top))
    step = next(part for part in (step / 5, step / 2, step) if axes.top / part <= 10)
    for i in range(int(axes.top / step) + 1):
        y = axes.y(i * step)
        yield line(LEFT, y, WIDTH - RIGHT, y, 'stroke="#ddd"')
        yield label(LEFT - 8, y + 4, f"{i * step:.4g}", 'text-anchor="end"')
    for size in sizes:
        yield line(axes.x(size), HEIGHT - BOTTOM, axes.x(size), HEIGHT - BOTTOM + 5, 'stroke="#555"')
        yield label(axes.x(size), HEIGHT - BOTTOM + 20, size_text(size), 'text-anchor="middle"')
    yield label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 15, "size of the operation (bytes)", 'text-anchor="middle"')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield label(20, middle, "algbw (GB/s)", f'text-anchor="middle" transform="rotate(-90 20 {middle})"')


def bound(axes, value, text):
    yield line(LEFT, axes.y(value), WIDTH - RIGHT, axes.y(value), 'stroke="#555" stroke-dasharray="6 4"')
    yield label(WIDTH - RIGHT + 8, axes.y(value) + 4, text)


def curve(axes, name, results, row):
    colour = COLOURS.get(name, "#555")
    points = [(axes.x(size), axes.y(size / result["us"] / 1e3)) for size, result in sorted(results.items())]
    yield '<polyline fill="none" stroke="{}" stroke-width="2" points="{}"/>'.format(
        colour, " ".join(f"{x:.1f},{y:.1f}" for x, y in points))
    for x, y in points:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
    y = HEIGHT - BOTTOM - 20 - 22 * row
    yield line(WIDTH - RIGHT + 8, y, WIDTH - RIGHT + 32, y, f'stroke="{colour}" stroke-width="2"')
    yield label(WIDTH - RIGHT + 38, y + 4, name)


def draw(title, systems, bounds):
    """SVG text; systems: by name, results by size; bounds: (GB/s, text) each."""
    sizes = sorted({size for results in systems.values() for size in results})
    highest = [size / result["us"] / 1e3 for results in systems.values() for size, result in results.items()]
    axes = Axes(sizes, 1.08 * max(highest + [value for value, _ in bounds]))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             label(LEFT, 32, title, 'font-size="15"')]
    parts += grid(axes, sizes)
    for value, text in bounds:
        parts += bound(axes, value, text)
    for row, (name, results) in enumerate(systems.items()):
        parts += curve(axes, name, results, row)
    return "\n".join(parts + ["</svg>", ""])
