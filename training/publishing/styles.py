"""The style of curves: a label has the same colour, marker and line in all figures."""

from gdn_keras.plots import PALETTE, Style

# Each pooling, and each author of networks, has its own colour; variants differ in dashes and
# markers.
_BLUE, _RED, _GREEN, _PINK, _ORANGE, _SKY, _BLACK = PALETTE
_DASHED, _DOTTED = (3, 1.5), (1, 1)
STYLES: dict[str, Style] = {
    "one scale channel": Style(_BLUE, "o"),
    "one channel, matched σ": Style(_BLUE, "D", _DOTTED),
    "max pooling": Style(_RED, "s"),
    "max, trained": Style(_RED, "s"),
    "max, dropout": Style(_RED, "s"),
    "max, transferred": Style(_RED, "X", _DASHED),
    "max, without": Style(_RED, "X", _DASHED),
    "max, cutout": Style(_RED, "P", _DOTTED),
    "average pooling": Style(_GREEN, "^"),
    "average, trained": Style(_GREEN, "^"),
    "average, dropout": Style(_GREEN, "^"),
    "average, transferred": Style(_GREEN, "v", _DASHED),
    "average, without": Style(_GREEN, "v", _DASHED),
    "average, cutout": Style(_GREEN, "P", _DOTTED),
    "reflection": Style(_GREEN, "^"),
    "mirrored image": Style(_ORANGE, "D"),
    "logsumexp pooling": Style(_PINK, "D"),
    "2-jet": Style(_GREEN, "^"),
    "3-jet": Style(_BLACK, "P", _DASHED),
    "ours, dropout": Style(_GREEN),
    "ours, without": Style(_GREEN, dashes=_DASHED),
    "SESN": Style(_RED, dashes=_DOTTED),
    "DISCO": Style(_PINK, dashes=(5, 1.5, 1, 1.5)),
    "PixelPool": Style(_ORANGE, dashes=(6, 2)),
    "CNN": Style(_BLACK, dashes=(4, 1, 1, 1, 1, 1)),
    "sampled derivatives": Style(_BLUE, "o"),
    "sampled, no final BN": Style(_SKY, "D"),
    "integrated derivatives": Style(_RED, "s"),
    "integrated, no final BN": Style(_ORANGE, "^"),
}
