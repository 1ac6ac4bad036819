/** What `module-graph.ts` uses of oxc-parser. */
declare module 'oxc-parser' {
  interface Name {
    readonly name: string;
  }
  interface Source {
    readonly type: string;
    readonly value: string;
  }
  interface Handlers {
    ImportDeclaration(node: {
      source: Source;
      importKind?: 'value' | 'type';
      specifiers: { type: string; imported: Name }[];
    }): void;
    ExportNamedDeclaration(node: {
      source: Source | null;
      exportKind?: 'value' | 'type';
      specifiers: { local: Name }[];
    }): void;
    ExportAllDeclaration(node: { source: Source; exportKind?: 'value' | 'type' }): void;
    ImportExpression(node: { source: Source }): void;
    TSImportType(node: { source: Source }): void;
  }
  export function parseSync(file: string, source: string): { program: unknown; errors: { message: string }[] };
  export class Visitor {
    constructor(handlers: Handlers);
    visit(program: unknown): void;
  }
}
