/* library: a product of somebody else's that is found at run time: oneDNN's sgemm (Debian: libdnnl2 or libdnnl3).
 *
 * It is looked for once, by soname and nowhere else, when it is first asked for; it is never needed, and SPARTA_ONEDNN=0 in the
 * environment leaves it alone. Our threads share panels, so a call must stay on the thread that makes it: a build with OpenMP is
 * told so through that thread's own setting, which is put back after the call; one with threads of its own (TBB) is not used.
 */
#ifndef SP_PANEL_LIBRARY_H
#define SP_PANEL_LIBRARY_H

#include "panel/abi.h"

sp_product sp_library_sgemm(void);    /* NULL: there is none */
const char *sp_library_version(void); /* "oneDNN 2.6.3"; NULL: there is none */
const char *sp_library_problem(void); /* why there is none: "not found", ...; NULL: there is one */

#endif
