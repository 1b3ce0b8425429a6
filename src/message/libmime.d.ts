// The part of libmime that is used; the package has no types of its own.
declare module 'libmime' {
  const libmime: {
    /** RFC 2047 words in a header value become text. */
    decodeWords(text: string): string
  }
  export default libmime
}
