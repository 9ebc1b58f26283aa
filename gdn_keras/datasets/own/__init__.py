"""Data sets of your own: images of any size with labels, as a record like those of the package.

`gdn_keras/datasets/sources.py` reads them from folders, files and other libraries. Every image is
resized so that its longer side has `side` pixels, and shown on a square canvas at nine sizes, as
`rescale` does.
"""
