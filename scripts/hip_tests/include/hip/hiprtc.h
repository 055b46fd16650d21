// hip-tests' headers include this one; nothing listed compiles at run time.
#pragma once
