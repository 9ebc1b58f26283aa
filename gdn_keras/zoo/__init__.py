"""The model zoo: list, look up and load networks. Offline first; nothing is ever executed.

    >>> gdn_keras.zoo.list_models("fashion_*")
    >>> gdn_keras.zoo.info("fashion_avg_2jet")
    >>> model = gdn_keras.zoo.load("fashion_avg_2jet")

| module            | content                                                             |
|-------------------|---------------------------------------------------------------------|
| `loading.py`      | the functions above and `download`                                  |
| `classifier.py`   | `ImageClassifier`, the class of the networks that `load` returns    |
| `search.py`       | where networks are, in which order they are searched for            |
| `folder.py`       | the folder of a network: its files, how it is read and written      |
| `records.py`      | what is in `metrics.json` and in the registry                       |
| `registry.py`     | the list of all networks, and the folders of zoo folders            |
| `weights.py`      | reading weights files safely                                        |
| `signing.py`      | signatures of folders, if `model-signing` is installed              |
| `hub_download.py` | files of the Hugging Face Hub and its cache                         |
| `tables.py`       | registry, results.csv and the tables in the docs, from the folders  |
"""

from gdn_keras.zoo.folder import CARD_FILE as CARD_FILE
from gdn_keras.zoo.folder import CONFIG_FILE as CONFIG_FILE
from gdn_keras.zoo.folder import FILES as FILES
from gdn_keras.zoo.folder import METRICS_FILE as METRICS_FILE
from gdn_keras.zoo.folder import RECIPE_FILE as RECIPE_FILE
from gdn_keras.zoo.folder import SIGNATURE_FILE as SIGNATURE_FILE
from gdn_keras.zoo.folder import Folder as Folder
from gdn_keras.zoo.folder import read_folder as read_folder
from gdn_keras.zoo.folder import write_folder as write_folder
from gdn_keras.zoo.loading import download as download
from gdn_keras.zoo.loading import info as info
from gdn_keras.zoo.loading import list_models as list_models
from gdn_keras.zoo.loading import load as load
from gdn_keras.zoo.loading import verify as verify
from gdn_keras.zoo.records import Golden as Golden
from gdn_keras.zoo.records import Metrics as Metrics
from gdn_keras.zoo.records import ModelInfo as ModelInfo
from gdn_keras.zoo.search import folders as folders
from gdn_keras.zoo.search import known_models as known_models
from gdn_keras.zoo.signing import check_signature as check_signature
from gdn_keras.zoo.signing import sign as sign
