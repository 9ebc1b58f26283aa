"""A Hugging Face Hub on loopback: create, commit, list and download, over real HTTP.

Speaks the part of the Hub's protocol that `huggingface_hub` uses for models and Spaces: creating
a repository, pre-upload, LFS batch with upload and verification, commits, repository and tree
listings, resolving files with ETag, commit and range headers, errors with their codes. It can
also be slow, cut an answer off, or fail. A Space is called "spaces/owner/name" here.

    with HubServer() as hub:
        hub.commit("owner/repo", {"config.json": b"{}"})
        subprocess.run(command, env={**os.environ, **hub.environment(tmp_path)})
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

TOKEN = "hf_loopback_token"
USER = "owner"
LFS_SUFFIXES = (".h5", ".onnx", ".png", ".wasm")


@dataclass
class Fault:
    """What goes wrong with the answers to requests whose path ends with `path`."""

    path: str
    method: str = "GET"
    times: int = 1  # how often; then all is well again
    status: int | None = None  # answer with this error instead
    delay: float = 0.0  # seconds before the answer
    cut_after: int | None = None  # bytes of the body after which the connection is closed
    pause: float = 0.0  # seconds after every kilobyte of the body


@dataclass
class Repository:
    private: bool = False
    sdk: str | None = None  # of a Space
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)


class HubServer:
    """The server, in a thread of its own; what it holds can be looked at and changed directly."""

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}  # large files by sha256
        self.faults: list[Fault] = []
        self.requests: list[str] = []  # "METHOD /path", in order
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}"
        self.cdn = f"http://localhost:{port}/cdn"  # another host, as with the real Hub

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self, home: str | Path) -> dict[str, str]:
        """Variables for a process that is to use this Hub, with its cache below `home`."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_CACHE": str(Path(home) / "hub"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_TOKEN": TOKEN,
        }

    def commit(self, name: str, files: dict[str, bytes | None], *, branch: str = "main") -> str:
        """Commit files (None deletes one) and return the commit's hash; creates the repository."""
        with self._lock:
            repository = self.repositories.setdefault(name, Repository())
            parent = repository.branches.get(branch, "")
            tree = dict(repository.commits.get(parent, {}))
            for path, content in files.items():
                if content is None:
                    del tree[path]
                else:
                    tree[path] = content
                    if path.endswith(LFS_SUFFIXES):
                        self.objects[hashlib.sha256(content).hexdigest()] = content
            listing = "".join(f"{p}{blob_id(c)}" for p, c in sorted(tree.items()))
            number = len(repository.commits)
            commit = hashlib.sha1(f"{parent}{number}{listing}".encode()).hexdigest()
            repository.commits[commit] = tree
            repository.branches[branch] = commit
            return commit

    def take_fault(self, method: str, path: str) -> Fault:
        with self._lock:
            for fault in self.faults:
                if fault.times > 0 and fault.method == method and path.endswith(fault.path):
                    fault.times -= 1
                    return fault
        return Fault(path="")


def blob_id(content: bytes) -> str:
    """What git calls a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Problem(Exception):
    def __init__(self, status: int, code: str | None, text: str, **headers: str):
        super().__init__(text)
        self.status = status
        self.headers = {"X-Error-Message": text, **headers}
        if code is not None:
            self.headers["X-Error-Code"] = code


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_HEAD(self):
        self._serve()

    def do_GET(self):
        self._serve()

    def do_POST(self):
        self._serve()

    def do_PUT(self):
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.fault = self.hub.take_fault(self.command, path)
        time.sleep(self.fault.delay)
        try:
            if self.fault.status is not None:
                raise _Problem(self.fault.status, None, "Something went wrong on our side")
            for method, pattern, action in _ROUTES:
                match = re.fullmatch(pattern, path)
                if method == self.command.replace("HEAD", "GET") and match:
                    action(self, *match.groups(), *([body] if method in ("POST", "PUT") else []))
                    return
            raise _Problem(404, None, f"No such route: {self.command} {path}")
        except _Problem as problem:
            answer = json.dumps({"error": str(problem)}).encode()
            self._answer(answer, status=problem.status, **problem.headers)

    def _answer(self, content: bytes, *, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            cut = self.fault.cut_after
            content = content if cut is None else content[:cut]
            step = 1024 if self.fault.pause else max(len(content), 1)
            for first in range(0, len(content), step):
                self.wfile.write(content[first : first + step])
                self.wfile.flush()
                time.sleep(self.fault.pause)
        if self.fault.cut_after is not None:
            self.close_connection = True

    def _json(self, data, status: int = 200, **headers: str) -> None:
        self._answer(
            json.dumps(data).encode(), status=status, Content_Type="application/json", **headers
        )

    def _authorised(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _require_token(self) -> None:
        if not self._authorised():
            raise _Problem(401, None, "Invalid username or password.")

    def _repository(self, name: str) -> Repository:
        repository = self.hub.repositories.get(name)
        if repository is None or (repository.private and not self._authorised()):
            raise _Problem(401 if repository else 404, "RepoNotFound", "Repository not found")
        return repository

    def _tree(self, name: str, revision: str) -> tuple[str, dict[str, bytes]]:
        repository = self._repository(name)
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            raise _Problem(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit, repository.commits[commit]

    # === Downloads ===

    def _resolve(self, name: str, revision: str, path: str) -> None:
        commit, tree = self._tree(name, revision)
        if path not in tree:
            raise _Problem(404, "EntryNotFound", "Entry not found", **{"X-Repo-Commit": commit})
        content = tree[path]
        if path.endswith(LFS_SUFFIXES):  # large files are elsewhere
            oid = hashlib.sha256(content).hexdigest()
            self._answer(
                b"",
                status=302,
                Location=f"{self.hub.cdn}/{oid}",
                X_Repo_Commit=commit,
                X_Linked_Etag=f'"{oid}"',
                X_Linked_Size=str(len(content)),
            )
        else:
            self._send_range(content, ETag=f'"{blob_id(content)}"', X_Repo_Commit=commit)

    def _cdn(self, oid: str) -> None:
        if "Authorization" in self.headers:
            raise _Problem(400, None, "The token must not be sent to another host")
        self._send_range(self.hub.objects[oid], ETag=f'"{oid}"')

    def _send_range(self, content: bytes, **headers: str) -> None:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        first = int(match[1]) if match else 0
        if not first:
            self._answer(content, **headers)
            return
        stated = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._answer(content[first:], status=206, Content_Range=stated, **headers)

    def _model_info(self, name: str, revision: str | None) -> None:
        commit, tree = self._tree(name, revision or "main")
        self._json(
            {
                "id": name,
                "modelId": name,
                "sha": commit,
                "private": self.hub.repositories[name].private,
                "siblings": [{"rfilename": path} for path in sorted(tree)],
                "tags": [],
            }
        )

    def _list_tree(self, name: str, revision: str) -> None:
        _, tree = self._tree(name, revision)
        entries = []
        for path, content in sorted(tree.items()):
            entry = {"type": "file", "path": path, "size": len(content), "oid": blob_id(content)}
            if path.endswith(LFS_SUFFIXES):
                oid = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": oid, "size": len(content), "pointerSize": 130}
            entries.append(entry)
        self._json(entries)

    # === Uploads ===

    def _who_am_i(self) -> None:
        self._require_token()
        self._json({"type": "user", "name": USER, "orgs": [], "auth": {"type": "access_token"}})

    def _create(self, body: bytes) -> None:
        self._require_token()
        asked = json.loads(body)
        kind = "spaces/" if asked.get("type") == "space" else ""
        name = f"{kind}{asked.get('organization') or USER}/{asked['name']}"
        url = f"{self.hub.url}/{name}"
        if name in self.hub.repositories:
            error = "You already created this repo"
            self._json({"error": error, "url": url}, status=409)
            return
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.hub.repositories[name] = Repository(private=private, sdk=asked.get("sdk"))
        self.hub.commit(name, {".gitattributes": b"*.h5 filter=lfs diff=lfs merge=lfs -text\n"})
        self._json({"url": url, "name": name, "id": name})

    def _validate_yaml(self, body: bytes) -> None:
        self._json({"errors": [], "warnings": []})

    def _preupload(self, name: str, revision: str, body: bytes) -> None:
        self._require_token()
        _, tree = self._tree(name, revision)
        files = []
        for asked in json.loads(body)["files"]:
            path = asked["path"]
            large = path.endswith(LFS_SUFFIXES)
            answer = {"path": path, "uploadMode": "lfs" if large else "regular"}
            answer["shouldIgnore"] = False
            if path in tree:
                content = tree[path]
                sha = hashlib.sha256(content).hexdigest()
                answer["oid"] = sha if large else blob_id(content)
            files.append(answer)
        self._json({"files": files})

    def _lfs_batch(self, name: str, body: bytes) -> None:
        self._require_token()
        self._repository(name)
        objects = []
        for asked in json.loads(body)["objects"]:
            answer = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.hub.objects:
                upload = {"href": f"{self.hub.url}/lfs/{asked['oid']}"}
                verify = {"href": f"{self.hub.url}/{name}.git/info/lfs/verify"}
                answer["actions"] = {"upload": upload, "verify": verify}
            objects.append(answer)
        self._json({"transfer": "basic", "objects": objects})

    def _lfs_upload(self, oid: str, body: bytes) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            raise _Problem(400, None, "The content does not have the stated hash")
        self.hub.objects[oid] = body
        self._answer(b"", ETag=f'"{oid}"')

    def _lfs_verify(self, name: str, body: bytes) -> None:
        asked = json.loads(body)
        if len(self.hub.objects.get(asked["oid"], b"")) != asked["size"]:
            raise _Problem(404, None, "Object does not exist")
        self._json({"message": "Success"})

    def _commit(self, name: str, revision: str, body: bytes) -> None:
        self._require_token()
        self._tree(name, revision)
        changes: dict[str, bytes | None] = {}
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                changes[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                if value["oid"] not in self.hub.objects:
                    raise _Problem(
                        400, None, f"LFS pointer to a file that was not uploaded: {value}"
                    )
                changes[value["path"]] = self.hub.objects[value["oid"]]
            elif item["key"] == "deletedFile":
                changes[value["path"]] = None
        commit = self.hub.commit(name, changes, branch=revision)
        url = f"{self.hub.url}/{name}/commit/{commit}"
        self._json({"success": True, "commitOid": commit, "commitUrl": url})


_NAME = r"((?:spaces/)?[\w.-]+/[\w.-]+?)"
_ROUTES = (
    ("GET", r"/api/whoami-v2", _Handler._who_am_i),
    ("POST", r"/api/repos/create", _Handler._create),
    ("POST", r"/api/validate-yaml", _Handler._validate_yaml),
    ("POST", rf"/api/(?:models/)?{_NAME}/preupload/(.+)", _Handler._preupload),
    ("POST", rf"/api/(?:models/)?{_NAME}/commit/(.+)", _Handler._commit),
    ("GET", rf"/api/(?:models/)?{_NAME}/tree/([^/]+)", _Handler._list_tree),
    ("GET", rf"/api/(?:models/)?{_NAME}(?:/revision/(.+))?", _Handler._model_info),
    ("POST", rf"/{_NAME}\.git/info/lfs/objects/batch", _Handler._lfs_batch),
    ("POST", rf"/{_NAME}\.git/info/lfs/verify", _Handler._lfs_verify),
    ("PUT", r"/lfs/([0-9a-f]{64})", _Handler._lfs_upload),
    ("GET", r"/cdn/([0-9a-f]{64})", _Handler._cdn),
    ("GET", rf"/{_NAME}/resolve/([^/]+)/(.+)", _Handler._resolve),
)


@contextlib.contextmanager
def connected(monkeypatch, cache):
    """A Hub that this process talks to, as if HF_ENDPOINT had been set before it started."""
    from huggingface_hub import constants

    with HubServer() as server:
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server
