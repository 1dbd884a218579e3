/* Variables of the environment: a value that is none of those a variable has is an error, since whoever set it wanted something. */
#include "cli.h"
#include <stdlib.h>
#include <string.h>

static const cli_option variables[] = {
#define CLI_VARIABLE(name, kind, values, least, most, help)                                                  \
    {name, 0, CLI_##kind, values, least, most, false, "", help},
#include "environment.def"
#undef CLI_VARIABLE
};

int cli_variable_count(void)
{
    return (int)SP_COUNT(variables);
}

const cli_option *cli_variable_row(int i)
{
    return &variables[i];
}

sparta_status cli_check_environment(cli *c)
{
    for (size_t i = 0; i < SP_COUNT(variables); i++) {
        const char *value = getenv(variables[i].name);
        if (value && *value && !cli_value_fits(&variables[i], value))
            return sp_fail(c->cx, SPARTA_E_USAGE, "%s: \"%s\" is not a value of it; give %s, or unset it",
                           variables[i].name, value, variables[i].metavar);
    }
    return SPARTA_OK;
}
