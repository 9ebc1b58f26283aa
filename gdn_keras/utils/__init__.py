"""What is not about networks: checks of arguments, files, images, Markdown, the style of figures.

Nothing here imports anything else of the package.
"""
