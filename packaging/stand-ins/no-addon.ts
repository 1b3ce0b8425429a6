// In the place of the addons of ssh2, which goes on with node:crypto where there is none. In the executable it would
// look for a file beside it, which may be anybody's.

export {}

throw new Error('There is no addon in the executable.')
