/* Formats of two dimensions that tests of storage go through: every kind of level, blocks, turned and mixed orders, widths. */
#ifndef SP_TESTS_STORE_FORMATS_H
#define SP_TESTS_STORE_FORMATS_H

#include "bed.h"
#include "store/store.h"

static const char *const formats_2d[] = {
    "dense",
    "csr",
    "csc",
    "dcsr",
    "csr, crd=u8, pos=u16",
    "csr, crd=u64, pos=i64",
    "csc, crd=u32, pos=u64",
    "bsr(1,1)",
    "bsr(2,3)",
    "bsr(4,4)",
    "bsr(16,4), crd=u8",
    "bsr(5,70), pos=u32",
    "strip(1)",
    "strip(4)",
    "strip(7)",
    "strip(64)",
    "rows(4)",
    "rows(3)",
    "panel",
    "(i,j)->(j:dense, i:dense)",
    "(i,j)->(j/4:dense, i:compressed, j%4:dense)",
    "(i,j)->(j/3:dense, i/2:compressed, j%3:dense, i%2:dense)",
    "(i,j)->(i/2:dense, j/3:compressed, j%3:dense, i%2:dense)",
    "(i,j)->(i/2:dense, j/3:dense, j%3:dense, i%2:dense)",
    "(i,j)->(i/4:compressed, j/4:compressed, i%4:dense, j%4:dense), crd[1]=u8",
    "(i,j)->(i/4:dense, j/4:compressed, i%4:compressed, j%4:compressed), crd[2..3]=u8, pos[2]=u64",
    "(i,j)->(i%3:dense, j:compressed, i/3:compressed)",
    "(i,j)->(j%4:compressed, i/2:dense, j/4:compressed, i%2:compressed)",
    "(i,j)->(i/2:dense, i%2:compressed, j:compressed)",
    "(i,j)->(i/2:dense, j:compressed, i%2:compressed)"};

HELPER sp_format parse(const char *text)
{
    sp_format f;
    if (sp_format_parse(cx, text, &f)) fail_msg("%s: %s", text, sparta_message(cx));
    return f;
}

#endif
