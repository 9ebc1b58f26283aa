"""Puts the Markdown files of the repository on the site, each at its own path; see mkdocs.yml.

The pages of the navigation are on the site, and so is every file that one of them links to. Links
are the same as in the repository. A notebook becomes a page, with the outputs stored in it.
"""

import base64
import json
import re
from pathlib import Path
from posixpath import dirname, join, normpath

from markdown import Extension
from markdown.preprocessors import Preprocessor
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"(\]\()([^)#\s]+)|(src=\")([^\"]+)")
_FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def on_config(config):
    """The cards of the zoo are below the table of all networks."""
    (networks,) = [part["Networks"] for part in config.nav if "Networks" in part]
    cards = sorted(ROOT.glob("zoo/*/README.md"))
    networks += [{path.parent.name: path.relative_to(ROOT).as_posix()} for path in cards]
    config.markdown_extensions.append(_Examples())
    return config


def on_files(files, config):
    waiting = list(_pages(config.nav))
    seen = {file.src_uri for file in files}
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        notebook = (ROOT / path).with_suffix(".ipynb")
        if notebook.is_file():
            text, pictures = _convert(notebook)
            files.append(File.generated(config, path, content=text))
            for name, content in pictures.items():
                files.append(File.generated(config, join(dirname(path), name), content=content))
        elif (ROOT / path).is_file():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        if path.endswith(".md") and (ROOT / path).is_file():
            text = _adjust((ROOT / path).read_text(encoding="utf-8"), path)
            targets = [match[2] or match[4] for match in _LINK.finditer(text)]
            targets = [normpath(join(dirname(path), target)) for target in targets]
            waiting += [target for target in targets if not target.startswith("..")]
    return files


def on_page_markdown(markdown, page, **_):
    return _adjust(markdown, page.file.src_uri)


class _Examples(Extension):
    """Examples in docstrings, which begin with >>>, are code, not quotations."""

    def extendMarkdown(self, md):
        md.preprocessors.register(_FenceExamples(md), "examples", 100)  # before fences are read


class _FenceExamples(Preprocessor):
    def run(self, lines):
        text = re.sub(r"(?m)^>>> (?:.+\n?)+", r"```pycon\n\g<0>\n```\n", "\n".join(lines))
        return text.split("\n")


def _pages(nav):
    for entry in nav:
        for page in entry.values():
            yield from [page] if isinstance(page, str) else _pages(page)


def _convert(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """The text of a notebook as Markdown, and its pictures by file name."""
    parts, pictures = [], {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":  # the log of TensorFlow
                continue
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"{notebook.stem}_{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![output]({name})")
            elif "text/html" in data:
                parts.append("".join(data["text/html"]))
            else:
                text = "".join(data["text/plain"])
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def _adjust(text: str, path: str) -> str:
    """For Python's Markdown: a folder is its README, and lists begin after an empty line."""

    def with_page(match):
        before, target = (match[1], match[2]) if match[1] else (match[3], match[4])
        is_folder = (ROOT / dirname(path) / target / "README.md").is_file()
        return f"{before}{target}/README.md" if is_folder else match[0]

    parts = _FENCE.split(_LINK.sub(with_page, text))
    for k in range(0, len(parts), 2):  # what is not code
        parts[k] = re.sub(r"^(?![-|#>\s])(.+)\n(?=- )", r"\1\n\n", parts[k], flags=re.MULTILINE)
    return "".join(parts)
