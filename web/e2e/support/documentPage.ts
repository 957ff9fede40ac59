import { expect, type Locator, type Page } from '@playwright/test';
import type { Name } from './apiClient';

export type Status = 'free' | 'mine' | 'other' | 'other-tab' | 'taking' | 'taken' | 'lost' | 'offline';

/** The page of a document. */
export class DocumentPage {
  readonly page: Page;
  readonly banner: Locator;
  /** The banner's sentence, without its buttons. */
  readonly sentence: Locator;
  readonly editor: Locator;
  readonly saveState: Locator;

  constructor(page: Page) {
    this.page = page;
    this.banner = page.locator('.leasehold-banner');
    this.sentence = this.banner.getByRole('status').first();
    this.editor = page.getByRole('textbox', { name: /Text of the document|Text des Dokuments/ });
    this.saveState = page.getByTestId('save-state');
  }

  async isAt(status: Status): Promise<void> {
    await expect(this.banner).toHaveAttribute('data-status', status);
  }

  /** Types at the end of the text, key by key. */
  async type(text: string): Promise<void> {
    await expect(this.editor).toHaveAttribute('contenteditable', 'true');
    await this.editor.press('Control+End');
    await this.editor.pressSequentially(text);
  }

  /** Types, and asserts that the lock is granted. */
  async take(text: string): Promise<void> {
    await this.type(text);
    await this.isAt('mine');
    await expect(this.editor).toContainText(text);
  }

  press(name: string | RegExp): Promise<void> {
    return this.banner.getByRole('button', { name, exact: typeof name === 'string' }).click();
  }
}

/** Signs in on the current page with the button of the demo, and waits until it is done. */
export async function signIn(page: Page, name: Name): Promise<void> {
  await page.getByRole('button', { name: new RegExp(`^${name}\\b`) }).click();
  await expect(page.getByRole('button', { name: /^(Sign out|Abmelden)$/ })).toBeVisible();
}
