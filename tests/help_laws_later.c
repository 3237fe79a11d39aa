#include "help_laws.h"
const law laws_later[] = {{0}};
