// The pictures of an HTML body, by their tags.
import { readAttributes, readReferences } from './tracking.ts'

export interface Picture {
  /** The address as written; '' when there is none. */
  url: string
  /** The text for people who cannot see it; '' when there is none. */
  alt: string
}

/** Every `<img …>` of a page. Linear time for any input. */
export function* readPictures(html: string): Iterable<Picture> {
  const tags = /<img(?=[\s/>])/gi
  for (let tag = tags.exec(html); tag; tag = tags.exec(html)) {
    const { end, values } = readAttributes(html, tags.lastIndex)
    tags.lastIndex = end
    yield { url: readReferences(values.get('src')?.value ?? '').trim(), alt: values.get('alt')?.value ?? '' }
  }
}
