"""From a finished run to a zoo folder: measurements, card and figure, files."""
