"""What the paper says about its networks in words and figures, in our words."""

from __future__ import annotations

import re
from itertools import product

from gdn_keras.datasets import SIZE_FACTORS

from .claim import ALIKE, LARGER, MUCH, OBJECT_SIZES, REGULAR, SMALLER, Claim


def _names(pattern: str) -> tuple[str, ...]:
    """`a_{b,c}_d` -> `a_b_d`, `a_c_d`; a space separates patterns."""
    names = []
    for part in pattern.split():
        pieces = re.split(r"\{([^}]*)\}", part)
        choices = [piece.split(",") if i % 2 else [piece] for i, piece in enumerate(pieces)]
        names += ["".join(choice) for choice in product(*choices)]
    return tuple(names)


def _said(section: str, models: str, text: str, **rest) -> Claim:
    return Claim(section=section, text=text, models=_names(models), **rest)


def _one(section: str, measure: str, models: str, text: str, *, at, **rest) -> Claim:
    return Claim(
        section=section,
        text=text,
        models=_names(models),
        measure=measure,
        size_factors=at,
        **rest,
    )


def _two(section: str, models: str, text: str, *, over: str, at, measure="gain", **rest) -> Claim:
    """A claim that models beat rivals, low = 0 by default; a single rival is shared."""
    names, rivals = _names(models), _names(over)
    rivals = rivals * len(names) if len(rivals) == 1 else rivals
    names = names * len(rivals) if len(names) == 1 else names
    return Claim(
        section=section,
        text=text,
        models=names,
        rivals=rivals,
        measure=measure,
        size_factors=at,
        **{"low": 0.0, **rest},
    )


_METHODS = "discrete,sampled_derivative,integrated_derivative,sampled,normalised,integrated"
_SINGLES = "{fashion,cifar}_single_2jet{,_s0p50,_s0p71}"
_MULTI = "{fashion,cifar}_{max,avg}_2jet{,_s0p50,_s0p71}"

CLAIMS: tuple[Claim, ...] = (
    # --- 2 the networks ---
    _said("2", "{fashion,cifar}_single_2jet",
          "A layer's receptive fields are Gaussian smoothing followed by central differences "
          "(Figure 1).",
          unavailable="a definition; `tests/test_scale_space_kernels.py` compares the kernels with "
          "another implementation"),
    _said("2", "{fashion,cifar}_{single,max,avg}_2jet",
          "Scale channels are a factor of sqrt(2) apart and share all weights, and sigma grows "
          "from layer to layer (Figure 2).",
          unavailable="a definition; `tests/test_recipes.py` compares the settings with the "
          "paper's tables, `tests/test_model_laws.py` every channel with a network of its own"),
    _said("2", "{fashion,cifar}_single_2jet",
          "Enlarging the image and all sigmas by the same factor enlarges the responses (Figure "
          "3).",
          unavailable="a law, which `tests/test_model_laws.py` measures; on our coarse grids, "
          "approximately and for factors of 2 only, since their spacings are powers of two"),
    # --- 6.1 rescaled Fashion-MNIST ---
    _one("6.1", "accuracy", "fashion_{single,max,avg}_2jet",
         "At the training size all three networks reach about 93 %.",
         at=(1.0,), low=93.0, high=93.0, printed="~93 %"),
    _one("6.1", "drop", "fashion_{max,avg}_2jet",
         "The multi-scale-channel networks lose about 4 to 7 ppt from size factor 1 to 1/2.",
         at=(0.5,), low=4.0, high=7.0, printed="about 4-7 ppt"),
    _one("6.1", "drop", "fashion_{max,avg}_2jet",
         "Towards size factor 2 the multi-scale-channel networks keep nearly the accuracy of "
         "size factor 1.", at=LARGER),
    _two("6.1", "fashion_{max,avg}_2jet",
         "Away from the training size the multi-scale-channel networks are much better than the "
         "single-scale-channel network.", over="fashion_single_2jet", at=(0.5, 2.0), low=MUCH),
    _two("6.1", "fashion_avg_2jet",
         "Average pooling is somewhat better than max pooling below size factor 1.",
         over="fashion_max_2jet", at=SMALLER, high=MUCH),
    _two("6.1", "fashion_max_2jet",
         "Max pooling is marginally better than average pooling at size factor 2.",
         over="fashion_avg_2jet", at=(2.0,), high=MUCH),
    _said("6.1", "fashion_{max,avg}_2jet",
          "The dominant scale channel is proportional to the size of the object, a linear trend "
          "that is sharper with max than with average pooling.",
          check="selection", parts=("sharper",)),
    _said("6.1", "fashion_{max,avg}_2jet",
          "Wrong classifications have strong peaks at the finest scales, and with average pooling "
          "also a peak at the largest size factor.",
          check="wrong peaks"),
    # --- 6.2 rescaled Fashion-MNIST with translations ---
    _two("6.2", "fashion_translated_avg_2jet",
         "With spatial max pooling, average pooling over scales gives a slightly flatter curve "
         "than max pooling.",
         over="fashion_translated_max_2jet", at=SIZE_FACTORS, measure="flatter", high=MUCH),
    _two("6.2", "fashion_translated_{max,avg}_2jet",
         "The curves are similar to those for centred objects.",
         over="fashion_{max,avg}_2jet", at=SIZE_FACTORS, low=None),
    # --- 6.3 rescaled CIFAR-10 ---
    _one("6.3", "accuracy", "cifar_{max,avg}_2jet",
         "At the training size the multi-scale-channel networks reach 85 to 86 %.",
         at=(1.0,), low=85.0, high=86.0, printed="85-86 %"),
    _two("6.3", "cifar_{max,avg}_2jet",
         "At the training size the single-scale-channel network is slightly worse than the "
         "multi-scale-channel networks.", over="cifar_single_2jet", at=(1.0,), high=MUCH),
    _one("6.3", "drop", "cifar_{max,avg}_2jet",
         "The multi-scale-channel networks lose about 8 to 10 ppt from size factor 1 to 1/2.",
         at=(0.5,), low=8.0, high=10.0, printed="about 8-10 ppt"),
    _one("6.3", "drop", "cifar_{max,avg}_2jet",
         "The multi-scale-channel networks lose 7 to 9 ppt from size factor 1 to 2.",
         at=(2.0,), low=7.0, high=9.0, printed="7-9 ppt"),
    _two("6.3", "cifar_{max,avg}_2jet",
         "Away from the training size the multi-scale-channel networks are much better than the "
         "single-scale-channel network.", over="cifar_single_2jet", at=(0.5, 2.0), low=MUCH),
    _said("6.3", "cifar_{max,avg}_2jet",
          "The dominant scale channel is proportional to the size of the object, a linear trend "
          "that is less sharp with average than with max pooling.",
          check="selection", parts=("sharper",)),
    _said("6.3", "cifar_{max,avg}_2jet",
          "Correct and wrong classifications have more pronounced peaks at the finest and at the "
          "coarsest scales.",
          check="peaks at both ends"),
    # --- 6.4 STIR ---
    _said("6.4", "stir_sign_{small,mid,large}_drop",
          "On traffic signs the curves are almost flat and better than those of SESN, DISCO and "
          "PixelPool, most of all for small objects.",
          check="stir", parts=("flat", "small objects")),
    _said("6.4", "stir_aerial_{small,mid,large}_drop",
          "On aerial images the curves are better than those of SESN, DISCO and PixelPool.",
          check="stir"),
    _two("6.4", "stir_sign_{small,mid,large}_drop",
         "The curves on traffic signs are flatter than those on aerial images.",
         over="stir_aerial_{small,mid,large}_drop", at=OBJECT_SIZES, measure="flatter"),
    _said("6.4", "stir_{sign,aerial}_{small,mid,large}_{drop,nodrop}",
          "Scale-channel dropout raises the accuracy and flattens the curves, most of all towards "
          "smaller objects.",
          check="stir dropout"),
    _said("6.4", "stir_sign_mid_{drop,nodrop}",
          "Trained on middle-size signs, the accuracy at these sizes is about 5 ppt above the "
          "GD-CNN of Velasco-Forero.", printed="roughly 5 ppt",
          unavailable="we do not have the numbers of this network"),
    _said("6.4", "stir_aerial_mid_{drop,nodrop}",
          "Trained on middle-size aerial objects, the accuracy at these sizes is about 2 ppt above "
          "the GD-CNN of Velasco-Forero.", printed="approximately 2 ppt",
          unavailable="we do not have the numbers of this network"),
    # --- 7.1 regularisation ---
    _two("7.1", "fashion_avg_2jet_drop",
         "On Fashion-MNIST with average pooling, scale-channel dropout changes next to nothing.",
         over="fashion_avg_2jet", at=SIZE_FACTORS, low=None),
    _two("7.1", "fashion_max_2jet",
         "On Fashion-MNIST with max pooling, training without scale-channel dropout can end in a "
         "worse solution, here measured by the mean over all sizes.",
         over="fashion_max_2jet_nodrop", at=SIZE_FACTORS, measure="mean"),
    _two("7.1", "cifar_{max,avg}_2jet",
         "On CIFAR-10, scale-channel dropout helps above size factor 1.",
         over="cifar_{max,avg}_2jet_nodrop", at=LARGER),
    _two("7.1", "cifar_{max,avg}_2jet_cutout",
         "On CIFAR-10, cutout helps a little below size factor 1, against no regularisation.",
         over="cifar_{max,avg}_2jet_nodrop", at=SMALLER, high=MUCH),
    # --- 7.2 2-jet and 3-jet ---
    _two("7.2", "fashion_avg_3jet",
         "On Fashion-MNIST the 3-jet is slightly better at the training size.",
         over="fashion_avg_2jet_drop", at=(1.0,), high=MUCH),
    _two("7.2", "fashion_avg_3jet",
         "On Fashion-MNIST the 3-jet generalises over scales as well as the 2-jet.",
         over="fashion_avg_2jet_drop", at=SMALLER + LARGER, low=None),
    _two("7.2", "cifar_avg_3jet",
         "On CIFAR-10 the 3-jet is better from size factor 1 upwards.",
         over="cifar_avg_2jet", at=(1.0, *LARGER)),
    _two("7.2", "cifar_avg_2jet",
         "On CIFAR-10 the 2-jet is better below size factor 1.",
         over="cifar_avg_3jet", at=SMALLER),
    # --- 7.3 logsumexp ---
    _two("7.3", "fashion_lse_2jet",
         "On Fashion-MNIST logsumexp pooling gives a flatter curve than max and average pooling.",
         over="fashion_max_2jet fashion_avg_2jet_drop", at=SIZE_FACTORS, measure="flatter"),
    _two("7.3", "cifar_{max,avg}_2jet",
         "On CIFAR-10 max and average pooling are better than logsumexp at large sizes.",
         over="cifar_lse_2jet", at=LARGER),
    # --- 7.4 discretisations ---
    _two("7.4", f"fashion28_{{{_METHODS}}}_{{s0p50,s0p71}}",
         "On Fashion-MNIST a smaller sigma_0 is generally slightly better.",
         over=f"fashion28_{{{_METHODS}}}_{{s0p71,s1p00}}", at=REGULAR, high=MUCH, loose=True),
    _two("7.4", "fashion28_{discrete,sampled_derivative,sampled}_{s0p50,s0p71,s1p00}",
         "On Fashion-MNIST the integrated Gaussian with differences is below the three best: the "
         "discrete Gaussian, sampled derivatives and the sampled Gaussian.",
         over="fashion28_{integrated,integrated,integrated}_{s0p50,s0p71,s1p00}", at=REGULAR),
    _two("7.4", f"cifar32_{{{_METHODS}}}_s0p50",
         "On CIFAR-10 sigma_0 = 1/2 is on average about 4 ppt better than sigma_0 = 1.",
         over=f"cifar32_{{{_METHODS}}}_s1p00", at=REGULAR, low=4.0, high=4.0, on_average=True,
         printed="~4 ppt"),
    _two("7.4", "cifar32_{discrete,discrete,discrete,discrete,discrete}_{s0p71,s1p00}",
         "On CIFAR-10 the discrete Gaussian is best at sigma_0 = 1/sqrt(2) and 1.",
         over=f"cifar32_{{{_METHODS.removeprefix('discrete,')}}}_{{s0p71,s1p00}}", at=REGULAR),
    _two("7.4", "cifar32_sampled_derivative_s0p50",
         "On CIFAR-10 sampled derivatives are best at sigma_0 = 1/2.",
         over="cifar32_{discrete,integrated_derivative,sampled,normalised,integrated}_s0p50",
         at=REGULAR),
    _two("7.4", "{fashion28,cifar32}_{sampled,integrated}_derivative_{s0p50,s0p71,s1p00}",
         "Sampled and integrated derivatives are mostly better than differences of the sampled and "
         "the integrated Gaussian.",
         over="{fashion28,cifar32}_{sampled,integrated}_{s0p50,s0p71,s1p00}", at=REGULAR,
         loose=True),
    _two("7.4", "cifar32_discrete_s0p50_zero",
         "On CIFAR-10 with fixed sigmas, zero padding is better than reflection.",
         over="cifar32_discrete_s0p50", at=REGULAR),
    # --- 7.5 learned scales ---
    _two("7.5", "fashion28_learned_{sampled,integrated}{_derivative,}_{bn,nobn}_{lr1e-2,lr1e-2}",
         "On Fashion-MNIST the largest learning rate of the sigmas, 0.01, is generally the best.",
         over="fashion28_learned_{sampled,integrated}{_derivative,}_{bn,nobn}_{lr1e-4,lr1e-3}",
         at=REGULAR, loose=True),
    _said("7.5",
          "cifar32_learned_{sampled,integrated}{_derivative,}_{bn,nobn}_{lr1e-4,lr1e-3,lr1e-2}",
          "On CIFAR-10 one of the smaller learning rates of the sigmas, 0.001 and 0.0001, is "
          "often the best.",
          check="smaller rate", loose=True),
    _two("7.5", "fashion28_learned_{sampled,integrated}{_derivative,}_bn_lr1e-2",
         "On Fashion-MNIST learned sigmas reach about what the best fixed sigmas reach.",
         over="fashion28_{sampled,integrated}{_derivative,}_s0p50", at=REGULAR, low=None),
    _two("7.5", "cifar32_learned_{sampled,integrated}{_derivative,}_bn_lr1e-4",
         "On CIFAR-10 learned sigmas are as good as the best fixed sigmas, or somewhat better.",
         over="cifar32_{sampled,integrated}{_derivative,}_s0p50", at=REGULAR,
         low=-ALIKE, high=MUCH),
    _said("7.5", "{fashion28,cifar32}_learned_{sampled,integrated}_derivative_{bn,nobn}_lr1e-3",
          "Learned sigmas grow with the layer k, roughly as 1/2 * 1.7^(k-1).",
          printed="1/2 x 1.7^(k-1)", check="growth"),
    _said("7.5", "{fashion28,cifar32}_learned_{sampled,integrated}_derivative_{bn,nobn}_lr1e-3",
          "In the last layer sigma often drops clearly with a final batch normalisation, more than "
          "without one; on CIFAR-10 it does not drop without one.",
          check="last sigma", loose=True),
    _said("7.5", "{fashion28,cifar32}_learned_{sampled,integrated}_derivative_{bn,nobn}_lr1e-3",
          "Sampled and integrated derivatives learn the same sigmas, but for a slightly smaller "
          "one of the integrated in the first layer.",
          check="same sigmas"),
    _said("7.5",
          "cifar32_{sampled,integrated}{,_derivative}_{s0p50,s0p71,s1p00} "
          "cifar32_learned_{sampled,integrated}{,_derivative}_bn_{lr1e-4,lr1e-3,lr1e-2}",
          "On CIFAR-10 some networks with learned sigmas and differences become comparable to "
          "those with derivatives.",
          check="comparable"),
    _two("7.5", "cifar32_learned_sampled_derivative_bn_lr1e-4_zero",
         "On CIFAR-10 with learned sigmas, zero padding is better than reflection.",
         over="cifar32_learned_sampled_derivative_bn_lr1e-4", at=REGULAR),
    # --- 8 maps and filters ---
    _said("8", "fashion_translated_max_2jet",
          "Activation maps of the network with spatial max pooling reliably localise objects that "
          "are not centred.",
          check="localisation"),
    _said("8", "fashion_translated_max_2jet",
          "It selects the scale channel approximately in proportion to the size of the object.",
          check="selection"),
    _said("8", "fashion_translated_max_2jet cifar_avg_2jet",
          "Activation maps show which parts of an object count: details in finer scale channels, "
          "whole objects in coarser ones.",
          unavailable="not judged; the [gallery](GALLERY.md) shows maps of `fashion_max_2jet` and "
          "`cifar_avg_2jet`"),
    _said("8", "cifar_avg_2jet",
          "At size factor 2 the middle and coarser scale channels tend to dominate.",
          check="coarser channels"),
    _said("8", "cifar_avg_2jet",
          "Filters of the 2-jet network resemble directional derivatives, most of all in the "
          "lowest layers, and some resemble the Laplacian.",
          check="derivative filters"),
    _said("8", "cifar_avg_{2jet,3jet}",
          "In the higher layers the 3-jet network learns more complex filters than the 2-jet "
          "network.",
          check="complex filters"),
    _said("8", "cifar_avg_2jet",
          "Some filters of the first layers are concentrated at their centre.",
          check="central filters"),
    # --- A.1 multi-scale-channel training ---
    _two("A.1", _MULTI,
         "Training all scale channels together is much better than transferring the weights of a "
         "single-scale-channel network, on the mean over all sizes.",
         over=_MULTI + "_transfer", at=SIZE_FACTORS, measure="mean", low=MUCH),
    _two("A.1", "{fashion,cifar}_max_2jet{,_s0p50,_s0p71}_transfer",
         "Of the transferred networks, max pooling is often much better than average pooling, on "
         "the mean over all sizes.",
         over="{fashion,cifar}_avg_2jet{,_s0p50,_s0p71}_transfer", at=SIZE_FACTORS,
         measure="mean", low=MUCH, loose=True),
    _said("A.1", _SINGLES,
          "A single-scale-channel network whose sigmas are all multiplied by the size factor "
          "performs quite well at that size factor.",
          check="matched"),
    _said("A.1", "{fashion,cifar}_{max,avg}_2jet{,_s0p50,_s0p71}_transfer",
          "The transferred networks generalise slightly worse than single-scale-channel networks "
          "with matched sigmas.",
          check="transfer"),
    _said("A.1", "cifar_{max,avg}_2jet_s0p50_transfer",
          "On CIFAR-10 with sigma_0 = 1/2 a transferred network is better at size factor 1/2 than "
          "the single-scale-channel network with matched sigmas.",
          check="transfer at 1/2"),
    _said("A.1", "{fashion,cifar}_max_2jet{,_s0p50,_s0p71}_transfer",
          "The dominant scale channel is proportional to the size of the object, a linear trend; "
          "channels with sigma_0 of at most 1/(2 sqrt 2) are avoided.",
          check="selection", parts=("avoided",)),
    _two("A.1", "{fashion,cifar}_{max,avg}_2jet",
         "A smaller sigma_0 costs accuracy at the smaller sizes.",
         over="{fashion,cifar}_{max,avg}_2jet_s0p50", at=SMALLER),
    _two("A.1", "{fashion,cifar}_{max,avg}_2jet_s0p50",
         "A smaller sigma_0 helps at the medium and large sizes.",
         over="{fashion,cifar}_{max,avg}_2jet", at=(1.0, *LARGER)),
    # --- A.2 learned sigma of the first layer ---
    _said("A.2", "{fashion28,cifar32}_learned_{sampled,integrated}{_derivative,}_{bn,nobn}_lr1e-3",
          "The first layer learns a fine scale, finer on CIFAR-10 than on Fashion-MNIST; sampled "
          "kernels learn larger sigmas than integrated ones, derivative kernels larger ones than "
          "Gaussians with differences.",
          check="first sigmas"),
    _said("A.2", "{fashion28,cifar32}_learned_{sampled,integrated}{_derivative,}_{bn,nobn}_lr1e-3",
          "The spread of the kernels is nearly the same for all methods.",
          check="spread"),
    # --- A.3 significance ---
    _said("A.3", "cifar32_{discrete,sampled_derivative,sampled,normalised}_{s0p50,s0p71,s1p00}",
          "With fixed sigmas the discrete Gaussian and sampled derivatives are significantly "
          "better than the sampled and the normalised Gaussian with differences.",
          check="significance"),
    _said("A.3", "cifar32_{discrete,sampled_derivative}_{s0p50,s0p71,s1p00}",
          "With fixed sigmas there is no general significant difference between the discrete "
          "Gaussian and sampled derivatives.",
          check="no significance"),
    _said("A.3", "cifar32_learned_{sampled,integrated}{_derivative,}_bn_{lr1e-4,lr1e-3,lr1e-2}",
          "With learned sigmas, sampled derivatives are significantly better than integrated "
          "derivatives and than both Gaussians with differences.",
          check="significance"),
)  # fmt: skip
