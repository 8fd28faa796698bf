"""ResNet-12 and WRN-28-10 of the few-shot literature, registered with timm on import.

Parameters carry the names of the published checkpoints, whose keys start with ``encoder.``.
"""

import torch.nn.functional as F
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from torch import nn


class _PooledNet(nn.Module):
    """What timm expects of a model, around a subclass's `forward_features`."""

    num_features = head_hidden_size = 640

    def __init__(self, num_classes=1000, in_chans=3):
        super().__init__()
        self.in_chans = in_chans
        self._build()
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes, global_pool=None):
        self.num_classes = num_classes
        self.fc = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()

    def get_classifier(self):
        return self.fc

    def forward_head(self, x, pre_logits=False):
        pooled = x.mean(dim=(2, 3))
        return pooled if pre_logits else self.fc(pooled)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


def _conv3x3_norm(in_planes, planes):
    return nn.Conv2d(in_planes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes)


class _ResidualPoolBlock(nn.Module):
    """Three convolutions beside a projection, then 2 x 2 max-pooling."""

    def __init__(self, in_planes, planes):
        super().__init__()
        self.conv1, self.bn1 = _conv3x3_norm(in_planes, planes)
        self.conv2, self.bn2 = _conv3x3_norm(planes, planes)
        self.conv3, self.bn3 = _conv3x3_norm(planes, planes)
        self.downsample = nn.Sequential(
            nn.Conv2d(in_planes, planes, 1, bias=False), nn.BatchNorm2d(planes)
        )

    def forward(self, x):
        out = F.leaky_relu(self.bn1(self.conv1(x)), 0.1)
        out = F.leaky_relu(self.bn2(self.conv2(out)), 0.1)
        out = self.bn3(self.conv3(out)) + self.downsample(x)
        return F.max_pool2d(F.leaky_relu(out, 0.1), 2)


class ResNet12(_PooledNet):
    """ResNet-12 with 64, 160, 320 and 640 channels, for 84 x 84 images."""

    def _build(self):
        self.layer1 = nn.Sequential(_ResidualPoolBlock(self.in_chans, 64))
        self.layer2 = nn.Sequential(_ResidualPoolBlock(64, 160))
        self.layer3 = nn.Sequential(_ResidualPoolBlock(160, 320))
        self.layer4 = nn.Sequential(_ResidualPoolBlock(320, 640))

    def forward_features(self, x):
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))


class _WideBlock(nn.Module):
    """Pre-activation block; the stride sits in the second convolution."""

    def __init__(self, in_planes, planes, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_planes)
        self.conv1 = nn.Conv2d(in_planes, planes, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = nn.Sequential(nn.Conv2d(in_planes, planes, 1, stride=stride))

    def forward(self, x):
        out = self.conv1(F.relu(self.bn1(x)))
        return self.conv2(F.relu(self.bn2(out))) + self.shortcut(x)


def _wide_stage(in_planes, planes, stride):
    first = _WideBlock(in_planes, planes, stride)
    return nn.Sequential(first, *(_WideBlock(planes, planes, 1) for _ in range(3)))


class WideResNet28x10(_PooledNet):
    """WRN-28-10 with convolution biases, as the few-shot checkpoints have them."""

    def _build(self):
        self.conv1 = nn.Conv2d(self.in_chans, 16, 3, padding=1)
        self.layer1 = _wide_stage(16, 160, stride=1)
        self.layer2 = _wide_stage(160, 320, stride=2)
        self.layer3 = _wide_stage(320, 640, stride=2)
        self.bn1 = nn.BatchNorm2d(640)

    def forward_features(self, x):
        return F.relu(self.bn1(self.layer3(self.layer2(self.layer1(self.conv1(x))))))


def checkpoint_filter_fn(state_dict, model):
    """The backbone's part of a few-shot checkpoint: ``params``, ``module.`` and ``encoder.``."""
    state_dict = state_dict.get("params", state_dict)
    state_dict = {name.removeprefix("module."): value for name, value in state_dict.items()}
    encoder = {
        name.removeprefix("encoder."): value
        for name, value in state_dict.items()
        if name.startswith("encoder.")
    }
    return encoder or state_dict


def _cfg(**kwargs):
    return {
        "num_classes": 1000,
        "input_size": (3, 84, 84),
        "crop_pct": 84 / 92,
        "interpolation": "bilinear",
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
        "classifier": "fc",
        **kwargs,
    }


default_cfgs = generate_default_cfgs(
    {
        "resnet12": _cfg(
            first_conv="layer1.0.conv1",
            mean=(120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255),
            std=(70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255),
        ),
        "wrn28_10": _cfg(first_conv="conv1"),
    }
)


@register_model
def resnet12(pretrained=False, **kwargs):
    return build_model_with_cfg(
        ResNet12, "resnet12", pretrained, pretrained_filter_fn=checkpoint_filter_fn, **kwargs
    )


@register_model
def wrn28_10(pretrained=False, **kwargs):
    return build_model_with_cfg(
        WideResNet28x10, "wrn28_10", pretrained, pretrained_filter_fn=checkpoint_filter_fn, **kwargs
    )
