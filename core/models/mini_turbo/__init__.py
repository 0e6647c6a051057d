"""mini-turbo: the four blocks of sd-turbo, small enough to ship, and the code that trains them.

words.py      what it can draw, in English and Vietnamese, and what a prompt asks for (no torch)
captions.py   the sentences it learns from (no torch)
pictures.py   the pictures: real clothing and digits, coloured and put on a background
blocks.py     tokenizer, text encoder, U-Net, VAE, scheduler
bank.py       captions and latents by the hundred thousand
train.py      the stages, one command each: train_judge, train_vae, train_teacher, train_student
diffusion.py, plumbing.py   noise and sampling; precision, CUDA graphs, clock, files of weights
package.py, evaluate.py, card.py    make the folder that the lab loads; measure it; its card
obey.py       looks at a finished picture: is this what was asked for?

Importing this package imports nothing else, so that pages may use `words` and `card`.
"""
