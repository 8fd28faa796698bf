"""The backbones of the OSLO paper under the names that timm gives them."""

PAPER_BACKBONES = {
    "ResNet-12": "resnet12",
    "WRN-28-10": "wrn28_10",
    "ResNet-50": "resnet50.a1_in1k",
    "ResNet-50 SSL": "resnet50.fb_ssl_yfcc100m_ft_in1k",
    "ResNet-50 SWSL": "resnet50.fb_swsl_ig1b_ft_in1k",
    "ResNet-50 CLIP": "resnet50_clip.openai",
    "ViT-B/16": "vit_base_patch16_224.augreg_in21k_ft_in1k",
    "ViT-B/16 DINO": "vit_base_patch16_224.dino",
    "ViT-B/16 SAM": "vit_base_patch16_224.sam_in1k",
    "ViT-B/16 MIIL": "vit_base_patch16_224_miil.in21k_ft_in1k",
    "ViT-B/16 CLIP": "vit_base_patch16_clip_224.openai",
    "Mixer-B/16": "mixer_b16_224.goog_in21k_ft_in1k",
    "Mixer-B/16 MIIL": "mixer_b16_224.miil_in21k_ft_in1k",
}
