/* onnx_attention: ONNX's own Attention becomes sparta's, where that says the same. */
#ifndef SP_COMPILE_ONNX_ATTENTION_H
#define SP_COMPILE_ONNX_ATTENTION_H

#include "compile/match.h"

sparta_status sp_attention_of_onnx(sp_match *m, sp_node *n) SP_MUST;
/* Where(the mask leaves the query a key, Attention, 0), as PyTorch's attention is written; another Where stays. */
sparta_status sp_attention_of_torch(sp_match *m, sp_node *n) SP_MUST;

#endif
