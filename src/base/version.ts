// The version of this program; package.json says the same, a test holds it.
export const version = '0.1.0'
