// The part of libmime that is used; the package has no types of its own.
declare module 'libmime' {
  const libmime: {
    /** Decodes the RFC 2047 words of a header value. */
    decodeWords(text: string): string
  }
  export default libmime
}
