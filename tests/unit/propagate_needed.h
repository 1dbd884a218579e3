/* Does an output depend on one element of a value, by what propagation found? */
#ifndef SP_TESTS_PROPAGATE_NEEDED_H
#define SP_TESTS_PROPAGATE_NEEDED_H

#include "propagate/facts.h"

static inline bool is_needed(const sp_propagation *p, const sp_value *v, const int64_t *index)
{
    const sp_fact *f = sp_fact_of(p, v);
    return !f->need.at || sp_cells_get(&f->need, v->dims.rank, index);
}

#endif
