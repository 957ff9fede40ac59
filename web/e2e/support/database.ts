import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { BIN, type Service } from './service';

const READ_TEXTS = fileURLToPath(new URL('./read_texts.py', import.meta.url));

export interface StoredTexts {
  /** Oldest first. Paragraphs are lines. */
  readonly versions: readonly { readonly number: number; readonly author: string; readonly text: string }[];
  readonly drafts: readonly {
    readonly base_version: number;
    readonly reason: string;
    readonly status: string;
    readonly author: string;
    readonly text: string;
  }[];
}

/** Reads the SQLite file itself. By Python, because Node has no SQLite before 22. */
export async function storedTexts({ database }: Service, documentId: string): Promise<StoredTexts> {
  const { stdout } = await promisify(execFile)(join(BIN, 'python'), [
    // Only the standard library: it starts in half of the time.
    '-I',
    '-S',
    READ_TEXTS,
    database,
    documentId,
  ]);
  return JSON.parse(stdout);
}
