// Replaces mailauth's BIMI part in the executable. Postrider requests no logos (`disableBimi`), and the part would add
// an HTTP client, an XML parser and a certificate parser: a megabyte.

/** Returns no verdict about a logo: mailauth treats false as "not checked". */
export const bimi = async (): Promise<false> => false

export const validateVMC = (): never => {
  throw new Error('Logos are not checked.')
}
