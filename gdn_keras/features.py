"""Embeddings: a network without its last layer."""

from __future__ import annotations

from gdn_keras.model import GaussDerNet, copy_weights
from gdn_keras.utils.checks import checked


@checked
def without_top(model: GaussDerNet) -> GaussDerNet:
    """The same weights without the last layer: `config.num_features` numbers per image.

    They are read from the maps of the last layer but one, after its activation, as the logits are
    from those of the last: at the centre or as the spatial maximum, then pooled over the scale
    channels. The result, (batch, feature), is invariant to the size of the object up to the ends of
    the range of scales. `scale_logits_model()` of the result gives (batch, scale channel, feature)
    before pooling, which is covariant: the size of the object moves it along the scale channels.

    The result is a `GaussDerNet` whose classes are features, so it can be adapted, folded, saved,
    exported and trained like any other. On coarse grids, its last layer may have a finer grid than
    as the last but one, and then its values are slightly different.
    """
    config = model.config
    if config.num_layers < 3:
        raise ValueError(
            "`model` must have at least three layers, so that two are left without the top. "
            f"Received: {config.num_layers} layers."
        )
    ratio = config.sigma_ratio
    config = config.replace(
        widths=config.widths[:-1],
        num_classes=config.num_features,
        class_names=(),
        sigma_ratio=ratio[:-1] if isinstance(ratio, tuple) else ratio,
        final_batch_norm=True,
        final_relu=True,
        scale_dropout=0.0,
    )
    top = (model.blocks[-1].jet, model.blocks[-1].norm, model.blocks[-1].activated)
    new = GaussDerNet(
        config,
        folded=model.folded,
        synchronized=model.synchronized,
        frozen=[name for name in model.frozen if name not in top],
        dtype=model.policy,
        name=model.name,
    )
    copy_weights(model, new)
    return new
