"""The operations of a tensor, one module per family; each extends the family before it.

base → creation → arithmetic → operators → functions → inverse_functions → movement → reduction →
matmul → indexing → assignment → convolution → random → normalization → loss → sorting →
arrangement → products → in_place → Tensor
"""
