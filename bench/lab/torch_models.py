"""The models of models/*.net as one would write them in PyTorch, and a batch of their shape.

They have as many trained weights as ours, which benches check against what `weir bench` says."""
import torch
from torch import nn
from torch.nn import functional as F


def mlp():
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 1024),
        nn.ReLU(inplace=True),
        nn.Linear(1024, 1024),
        nn.ReLU(inplace=True),
        nn.Linear(1024, 10),
    )


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(inplace=True),
        nn.Linear(120, 84),
        nn.ReLU(inplace=True),
        nn.Linear(84, 10),
    )


def conv_relu(inputs, outputs, stride=1):
    return [nn.Conv2d(inputs, outputs, 3, stride, padding=1), nn.ReLU(inplace=True)]


def alexnet():
    return nn.Sequential(
        *conv_relu(3, 64, stride=2),
        nn.MaxPool2d(2),
        *conv_relu(64, 192),
        nn.MaxPool2d(2),
        *conv_relu(192, 384),
        *conv_relu(384, 256),
        *conv_relu(256, 256),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 10),
    )


def conv_norm(inputs, outputs, kernel=3, stride=1):
    """a convolution without bias, and batch norm"""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


def vgg16():
    layers, inputs = [], 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [*conv_norm(inputs, width), nn.ReLU(inplace=True)]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


class Block(nn.Module):
    """two convolutions and a way around them"""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = conv_norm(inputs, outputs, stride=stride)
        self.second = conv_norm(outputs, outputs)
        same = stride == 1 and inputs == outputs
        self.around = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x):
        inner = F.relu(self.first(x), inplace=True)
        return F.relu(self.second(inner) + self.around(x), inplace=True)


def resnet(depth):
    layers, inputs = [conv_norm(3, 16), nn.ReLU(inplace=True)], 16
    for width in (16, 32, 64):
        for _ in range((depth - 2) // 6):
            layers.append(Block(inputs, width, stride=1 if width == inputs else 2))
            inputs = width
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *pool, nn.Linear(64, 10))


class Words(nn.Module):
    """the Penn Treebank's language models: an embedding, two LSTM layers, a row a word"""

    def __init__(self, width, words=10000):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2)
        self.out = nn.Linear(width, words)
        # PyTorch has two biases where one does: the second stays zero and is not trained
        for name, bias in self.lstm.named_parameters():
            if name.startswith('bias_hh'):
                nn.init.zeros_(bias).requires_grad_(False)

    def forward(self, x):
        hidden, _ = self.lstm(self.embed(x))
        return self.out(hidden).flatten(0, 1)


class Attend(nn.Module):
    """a block of a transformer, norms first"""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, places, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, places, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, places, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, tokens=256, width=256, depth=6, heads=4, places=128):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.place = nn.Parameter(torch.zeros(places, width))
        self.blocks = nn.Sequential(*(Attend(width, heads) for _ in range(depth)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, x):
        return self.out(self.norm(self.blocks(self.embed(x) + self.place))).flatten(0, 1)


PICTURES = dict(mlp=mlp, lenet=lenet, alexnet=alexnet, vgg16=vgg16)
PICTURES.update({f'resnet{d}': lambda d=d: resnet(d) for d in (20, 32, 44, 56)})
WORDS = {'lstm': 650, 'lstm-small': 200}
NAMES = [*PICTURES, *WORDS, 'gpt']


def build(name, batch):
    """(model, inputs, targets): a batch of synthetic samples of the model's shape"""
    if name in WORDS:
        tokens = torch.randint(10000, (36, batch))
        return Words(WORDS[name]), tokens[:-1].contiguous(), tokens[1:].flatten()
    if name == 'gpt':
        tokens = torch.randint(256, (batch, 129))
        return GPT(), tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
    shape = (1, 28, 28) if name in ('mlp', 'lenet') else (3, 32, 32)
    return PICTURES[name](), torch.randn(batch, *shape), torch.randint(10, (batch,))


def trained(model):
    """how many weights"""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
