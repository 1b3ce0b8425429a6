// The paths of scripts, styles and fonts. A path has a hash of the content, so that browsers keep the file for a year.

const paths = new Map<string, string>()

/** Names a file by its content. From the sources this happens at its first request, in the executable at the start. */
export const nameAsset = (name: string, hash: string): void =>
  void paths.set(name, `/assets/${name.replace(/(?=\.\w+$)/, `.${hash}`)}`)

export const assetPath = (name: string): string => paths.get(name) ?? `/assets/${name}`
